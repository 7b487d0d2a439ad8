/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptors that UCX opens: sockets, epolls, pipes. It leaves them to every program and child that the process starts, and as long as
 * one has a socket of a connection, peers do not see that this process has died. So exec closes them, and a forked child gives them up.
 *
 * They are found by what the kernel says in /proc/self/fdinfo: the members of the worker's event descriptor, which is an epoll, and of those above and below it,
 * and the sockets at ports that the worker's address names. What only appeared meanwhile may be the program's, and stays.
 */
#ifndef UCX_DESCRIPTORS_H
#define UCX_DESCRIPTORS_H

struct ucx_worker;
struct ucx_descriptors;

/* What is open before a worker is made; NULL without memory. */
struct ucx_descriptors *ucx_descriptors_before(void);
/* For a worker that has been made, and stays; under the lock of the process's workers. From now on a forked child gives up what UCX has. Takes `before`. */
void ucx_descriptors_add(struct ucx_descriptors *before, const struct ucx_worker *worker);
/* Of this worker's connections, which come and go: those that are new are closed by exec. A file of /proc for each of its epolls. */
void ucx_descriptors_seal(const struct ucx_worker *worker);

#endif
