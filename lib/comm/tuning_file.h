/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that CORALE_TUNING names. */
#ifndef TUNING_FILE_H
#define TUNING_FILE_H

#include "base/settings.h"
#include "plan/machine/tuning.h"

/*
 * No rates where the setting is empty. 0; CORALE_ESETTING, logged: the file can't be read, or is broken in the line that the message names, and out names
 * no rate. rank: for the message.
 */
int tuning_load(const struct settings *settings, int rank, struct tuning *out);

#endif
