/* NCCL's variables, NCCL_*, as the library sees them. */
#ifndef DOOR_ENV_H
#define DOOR_ENV_H

/* The value of variable name: of the environment, else of NCCL_CONF_FILE or ~/.nccl.conf, else of /etc/nccl.conf. NULL if unset. */
const char *door_env(const char *name);

/* The variables that the library knows; 0 <= i < door_env_count(). Names are constant strings: their addresses never change. */
int door_env_count(void);
const char *door_env_name(int i);

#endif
