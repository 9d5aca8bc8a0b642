/*
 * rsockets CASE [ADDRESS]: both ends of a stream in one process, on the loopback interface, or one end of two processes.
 * Says on stderr what is wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(condition)                                                                                       \
	do {                                                                                                   \
		if (!(condition)) {                                                                            \
			fprintf(stderr, "line %d: %s; errno %d: %s\n", __LINE__, #condition, errno,            \
				strerror(errno));                                                              \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

#define FAILS(call, number) CHECK((call) == -1 && errno == (number))

enum { PORT = 7471 };

static struct sockaddr_in address(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return at;
}

static int listening(void)
{
	struct sockaddr_in at = address(PORT);
	int on = 1, socket = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(socket >= 0);
	CHECK(!rsetsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	CHECK(!rbind(socket, (struct sockaddr *)&at, sizeof at));
	CHECK(!rlisten(socket, 4));
	return socket;
}

static int connected(void)
{
	struct sockaddr_in at = address(PORT);
	int socket = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(socket >= 0);
	CHECK(!rconnect(socket, (struct sockaddr *)&at, sizeof at));
	return socket;
}

static void *accept_one(void *listener)
{
	intptr_t accepted = raccept((int)(intptr_t)listener, NULL, NULL);

	CHECK(accepted >= 0);
	return (void *)accepted;
}

struct pair {
	int listener, client, server;
};

static struct pair pair(void)
{
	struct pair made = { .listener = listening() };
	pthread_t thread;
	void *server;

	CHECK(!pthread_create(&thread, NULL, accept_one, (void *)(intptr_t)made.listener));
	made.client = connected();
	CHECK(!pthread_join(thread, &server));
	made.server = (int)(intptr_t)server;
	return made;
}

static void close_pair(struct pair it)
{
	CHECK(!rclose(it.client));
	CHECK(!rclose(it.server));
	CHECK(!rclose(it.listener));
	FAILS(rclose(it.client), EBADF);
}

static void refusals(void)
{
	struct sockaddr_in at = address(PORT);
	char byte;
	int socket;

	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(rsocket(AF_INET, SOCK_DGRAM, 0), EPROTONOSUPPORT);
	FAILS(rsend(1000, "x", 1, 0), EBADF);
	FAILS(rreadv(1000, NULL, -1), EINVAL);
	FAILS(rpoll(NULL, 1, 0), EFAULT);
	socket = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(socket >= 0);
	FAILS(rsend(socket, "x", 1, 0), ENOTCONN);
	FAILS(rrecv(socket, &byte, 1, 0), ENOTCONN);
	FAILS(rshutdown(socket, SHUT_RDWR), ENOTCONN);
	FAILS(raccept(socket, NULL, NULL), EINVAL);
	FAILS(rsetsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &at, sizeof at), ENOTSUP);
	FAILS(rconnect(socket, (struct sockaddr *)&at, sizeof at), ECONNREFUSED);
	CHECK(!rclose(socket));
}

static void peek_and_parts(void)
{
	struct pair it = pair();
	char bytes[8] = "";
	struct iovec out[2] = { { "abc", 3 }, { "defg", 4 } }, in[2] = { { bytes, 2 }, { bytes + 2, 5 } };

	CHECK(rwritev(it.client, out, 2) == 7);
	CHECK(rrecv(it.server, bytes, 3, MSG_PEEK) == 3 && !memcmp(bytes, "abc", 3));
	CHECK(rrecv(it.server, bytes, 1, 0) == 1 && bytes[0] == 'a');
	CHECK(rrecv(it.server, bytes, 6, MSG_WAITALL) == 6 && !memcmp(bytes, "bcdefg", 6));
	FAILS(rrecv(it.server, bytes, 1, MSG_DONTWAIT), EAGAIN);
	CHECK(rsend(it.server, "1234567", 7, 0) == 7);
	CHECK(rrecv(it.client, bytes, 7, MSG_PEEK | MSG_WAITALL) > 0);
	CHECK(rreadv(it.client, in, 2) == 7 && !memcmp(bytes, "1234567", 7));
	close_pair(it);
}

static void half_closed(void)
{
	struct pair it = pair();
	char bytes[8];

	CHECK(rsend(it.client, "last", 4, 0) == 4);
	CHECK(!rshutdown(it.client, SHUT_WR));
	CHECK(rsend(it.client, "more", 4, 0) == -1);
	CHECK(rrecv(it.server, bytes, 8, 0) == 4 && !memcmp(bytes, "last", 4));
	CHECK(rrecv(it.server, bytes, 8, 0) == 0);
	CHECK(rsend(it.server, "back", 4, 0) == 4);
	CHECK(rrecv(it.client, bytes, 8, 0) == 4 && !memcmp(bytes, "back", 4));
	CHECK(!rshutdown(it.server, SHUT_WR));
	CHECK(rrecv(it.client, bytes, 8, 0) == 0);
	close_pair(it);
}

static void nonblocking(void)
{
	struct sockaddr_in at = address(PORT), name;
	socklen_t len = sizeof name, int_len = sizeof(int);
	int listener = listening(), client = rsocket(AF_INET, SOCK_STREAM, 0), server, error = -1;
	struct pollfd fd = { .fd = listener, .events = POLLIN };

	CHECK(!rfcntl(listener, F_SETFL, O_NONBLOCK) && rfcntl(listener, F_GETFL) & O_NONBLOCK);
	FAILS(raccept(listener, NULL, NULL), EAGAIN);
	CHECK(rpoll(&fd, 1, 0) == 0);
	CHECK(!rfcntl(client, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(client, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK(rpoll(&fd, 1, -1) == 1 && fd.revents == POLLIN);
	server = raccept(listener, (struct sockaddr *)&name, &len);
	CHECK(server >= 0 && name.sin_family == AF_INET && ntohl(name.sin_addr.s_addr) == INADDR_LOOPBACK);
	fd = (struct pollfd){ .fd = client, .events = POLLOUT };
	CHECK(rpoll(&fd, 1, -1) == 1 && fd.revents == POLLOUT);
	CHECK(!rgetsockopt(client, SOL_SOCKET, SO_ERROR, &error, &int_len) && error == 0);
	CHECK(!rgetpeername(client, (struct sockaddr *)&name, &len) && ntohs(name.sin_port) == PORT);
	CHECK(!rgetsockname(client, (struct sockaddr *)&name, &len) && name.sin_port != 0);
	close_pair((struct pair){ listener, client, server });
}

static void *fill_pipe(void *pipe)
{
	CHECK(write((int)(intptr_t)pipe, "x", 1) == 1);
	return NULL;
}

static void poll_and_select(void)
{
	struct pair it = pair();
	int pipes[2];
	struct pollfd fds[2];
	struct timeval now = { 0 };
	pthread_t thread;
	fd_set reads, writes;
	char byte;

	CHECK(!pipe(pipes));
	fds[0] = (struct pollfd){ .fd = it.server, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	CHECK(rpoll(fds, 2, 0) == 0);
	CHECK(!pthread_create(&thread, NULL, fill_pipe, (void *)(intptr_t)pipes[1]));
	CHECK(rpoll(fds, 2, -1) == 1 && fds[1].revents == POLLIN && fds[0].revents == 0);
	CHECK(!pthread_join(thread, NULL) && read(pipes[0], &byte, 1) == 1);
	CHECK(rsend(it.client, "y", 1, 0) == 1);
	CHECK(rpoll(fds, 2, -1) == 1 && fds[0].revents == POLLIN && fds[1].revents == 0);
	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_SET(it.server, &reads);
	FD_SET(it.client, &reads);
	FD_SET(it.client, &writes);
	CHECK(rselect(it.server + it.client + 1, &reads, &writes, NULL, &now) == 2);
	CHECK(FD_ISSET(it.server, &reads) && !FD_ISSET(it.client, &reads) && FD_ISSET(it.client, &writes));
	CHECK(rclose(it.client) == 0);
	/* What came before the end comes before it. */
	CHECK(rpoll(fds, 1, -1) == 1 && fds[0].revents == POLLIN);
	CHECK(rrecv(it.server, &byte, 1, 0) == 1 && byte == 'y');
	CHECK(rpoll(fds, 1, -1) == 1 && fds[0].revents & POLLHUP);
	CHECK(rrecv(it.server, &byte, 1, 0) == 0);
	CHECK(!rclose(it.server) && !rclose(it.listener));
}

static void *send_much(void *socket)
{
	static char bytes[5000000];
	size_t i;

	for (i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)(i * 31 + (i >> 12));
	CHECK(rsend((int)(intptr_t)socket, bytes, sizeof bytes, 0) == sizeof bytes);
	return bytes;
}

/* Each side sends more than all buffers hold while it reads: neither waits for the other for ever. */
static void both_directions(void)
{
	struct pair it = pair();
	int ends[2] = { it.client, it.server }, i;
	static char bytes[2][5000000];
	pthread_t threads[2];

	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, send_much, (void *)(intptr_t)ends[i]));
	for (i = 0; i < 2; i++)
		CHECK(rrecv(ends[i], bytes[i], sizeof bytes[i], MSG_WAITALL) == sizeof bytes[i]);
	for (i = 0; i < 2; i++) {
		void *sent;

		CHECK(!pthread_join(threads[i], &sent));
		CHECK(!memcmp(bytes[i], sent, sizeof bytes[i]));
	}
	close_pair(it);
}

static void mapped(void)
{
	struct pair it = pair();
	int count = 4;
	static char buffer[70000];
	char byte;

	close_pair(it);
	it.listener = listening();
	CHECK(!rsetsockopt(it.listener, SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof count));
	it.client = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(!rsetsockopt(it.client, SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof count));
	{
		struct sockaddr_in at = address(PORT);
		pthread_t thread;
		void *server;

		CHECK(!pthread_create(&thread, NULL, accept_one, (void *)(intptr_t)it.listener));
		CHECK(!rconnect(it.client, (struct sockaddr *)&at, sizeof at));
		CHECK(!pthread_join(thread, &server));
		it.server = (int)(intptr_t)server;
	}
	CHECK(riomap(it.server, buffer, sizeof buffer, PROT_WRITE, 0, 1000) == 1000);
	/* The peer knows of a mapping when it has got what was sent after it. */
	CHECK(rsend(it.server, "m", 1, 0) == 1 && rrecv(it.client, &byte, 1, 0) == 1);
	FAILS((long)riowrite(it.client, "no", 2, 10, 0), EFAULT);
	CHECK(riowrite(it.client, "hello", 5, 1000 + 65000, 0) == 5);
	CHECK(rsend(it.client, "w", 1, 0) == 1 && rrecv(it.server, &byte, 1, 0) == 1);
	CHECK(!memcmp(buffer + 65000, "hello", 5));
	CHECK(!riounmap(it.server, buffer, sizeof buffer));
	FAILS(riounmap(it.server, buffer, sizeof buffer), EINVAL);
	close_pair(it);
}

/* The two ends of a connection that breaks. */
static void sink(void)
{
	int listener = listening(), server;
	ssize_t count;
	char bytes[4096];

	puts("listening");
	fflush(stdout);
	server = raccept(listener, NULL, NULL);
	CHECK(server >= 0);
	while ((count = rrecv(server, bytes, sizeof bytes, 0)) > 0)
		;
	printf("ended with %s\n", count == 0 ? "0" : strerrorname_np(errno));
	CHECK(!rclose(server) && !rclose(listener));
}

static void source(void)
{
	int client = connected();
	char bytes[4096] = "";

	puts("connected");
	fflush(stdout);
	while (rsend(client, bytes, sizeof bytes, 0) > 0)
		;
	printf("ended with %s\n", strerrorname_np(errno));
	CHECK(!rclose(client));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "refusals", refusals },	{ "peek_and_parts", peek_and_parts },
	{ "half_closed", half_closed }, { "nonblocking", nonblocking },
	{ "poll_and_select", poll_and_select }, { "both_directions", both_directions },
	{ "mapped", mapped },		{ "sink", sink },
	{ "source", source },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: rsockets CASE\n");
	return 2;
}
