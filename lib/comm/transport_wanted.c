/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "transport_rows.h"

const struct transport_row *transport_row_at(int i, const struct transport_row *own)
{
	const struct transport_row *row = transport_rows[i];
	return own && row && !strcmp(own->name, row->name) ? own : row;
}

int transport_is_wanted(const struct settings *settings, const struct transport_row *row)
{
	return !strcasecmp(settings->transport, "auto") || !strcasecmp(settings->transport, row->name);
}

int transport_check_wanted(const struct settings *settings, int rank)
{
	char names[TRANSPORT_ROWS * (TRANSPORT_NAME_BYTES + 2)] = "";
	for (int i = 0; transport_rows[i]; i++) {
		if (transport_is_wanted(settings, transport_rows[i]))
			return 0;
		snprintf(names + strlen(names), sizeof names - strlen(names), ", %s",
			 transport_rows[i]->name);
	}
	return log_error(CORALE_ESETTING, rank,
			 "CORALE_TRANSPORT=%s is malformed: expected auto%s; correct or unset it",
			 settings->transport, names);
}
