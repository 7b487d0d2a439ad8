/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is handed out in pieces: each begins at a cache line, which is also aligned for any type. */
#ifndef ALIGN_H
#define ALIGN_H

enum { ALIGN_LINE = 64 };
#define ALIGN_ROUND(bytes) (((bytes) + ALIGN_LINE - 1) / ALIGN_LINE * ALIGN_LINE)

#endif
