/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floating-point environment that sums, plans and choices are defined in: rounding to nearest, subnormal numbers kept, no traps. A thread's own may
 * differ (fesetround, flush to zero, a program that was linked with -ffast-math) and is inherited by the threads that it starts, so whoever computes what
 * all ranks must have alike does so between float_env_default and float_env_restore. In the default environment these only read a register.
 */
#ifndef FLOAT_ENV_H
#define FLOAT_ENV_H

#include <stdint.h>

#if defined(__x86_64__)

typedef uint32_t float_env; /* MXCSR */

enum { FLOAT_ENV_CONTROL = 0xffc0, FLOAT_ENV_DEFAULT = 0x1f80 }; /* all but the flags; all traps masked */

static inline float_env float_env_read(void)
{
	float_env env;
	__asm__ volatile("stmxcsr %0" : "=m"(env) : : "memory");
	return env;
}

static inline void float_env_write(float_env env)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(env) : "memory");
}

#elif defined(__aarch64__)

typedef uint64_t float_env; /* FPCR */

#define FLOAT_ENV_CONTROL UINT64_MAX
enum { FLOAT_ENV_DEFAULT = 0 };

static inline float_env float_env_read(void)
{
	float_env env;
	__asm__ volatile("mrs %0, fpcr" : "=r"(env) : : "memory");
	return env;
}

static inline void float_env_write(float_env env)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(env) : "memory");
}

#else
#include <fenv.h>

typedef fenv_t float_env;

static inline float_env float_env_default(void)
{
	float_env env;
	fegetenv(&env);
	fesetenv(FE_DFL_ENV);
	return env;
}

static inline void float_env_restore(float_env env)
{
	fesetenv(&env);
}

#endif

#if defined(__x86_64__) || defined(__aarch64__)

static inline int float_env_is_default(float_env env)
{
	return (env & FLOAT_ENV_CONTROL) == FLOAT_ENV_DEFAULT;
}

/* Returns what float_env_restore gives back to the thread. */
static inline float_env float_env_default(void)
{
	const float_env env = float_env_read();
	if (!float_env_is_default(env))
		float_env_write(FLOAT_ENV_DEFAULT);
	return env;
}

static inline void float_env_restore(float_env env)
{
	if (!float_env_is_default(env))
		float_env_write(env);
}

#endif

#endif
