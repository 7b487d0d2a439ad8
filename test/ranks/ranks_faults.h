/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures between nodes, over one transport: what the program's memory, streams and threads see of them. Two ranks, a node
 * each; with more ranks the cases that take any number.
 */
#ifndef RANKS_FAULTS_H
#define RANKS_FAULTS_H

int ranks_faults_main(int argc, char **argv, const char *transport);

#endif
