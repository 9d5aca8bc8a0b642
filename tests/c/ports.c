/*
 * Says what happens to the port of the first device, an event and what it changed a line, until the device is gone.
 */
#include "ends.h"
#include <arpa/inet.h>

#define MAX_GIDS 16

static union ibv_gid gids[MAX_GIDS];

static int holds(const union ibv_gid *table, const union ibv_gid *gid)
{
	for (int i = 0; i < MAX_GIDS; i++)
		if (!memcmp(&table[i], gid, sizeof(*gid)))
			return 1;
	return 0;
}

static void say_those_missing(const char *what, const union ibv_gid *from, const union ibv_gid *in)
{
	static const union ibv_gid nothing;
	char text[INET6_ADDRSTRLEN];

	for (int i = 0; i < MAX_GIDS; i++)
		if (memcmp(&from[i], &nothing, sizeof(nothing)) && !holds(in, &from[i]))
			printf(" %s %s", what, inet_ntop(AF_INET6, from[i].raw, text, sizeof(text)));
}

static void say_port(struct ibv_context *context)
{
	union ibv_gid now[MAX_GIDS];
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(context, 1, &port), "query_port");
	printf(" %s phys %d", ibv_port_state_str(port.state), port.phys_state);
	for (int i = 0; i < MAX_GIDS; i++)
		CHECK(!ibv_query_gid(context, 1, i, &now[i]), "query_gid %d", i);
	say_those_missing("with", now, gids);
	say_those_missing("without", gids, now);
	memcpy(gids, now, sizeof(gids));
	printf("\n");
}

int main(void)
{
	struct ibv_context *context = open_device();
	struct ibv_async_event event;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("opened");
	say_port(context);
	do {
		CHECK(!ibv_get_async_event(context, &event), "get_async_event: %s", strerror(errno));
		CHECK(event.element.port_num == 1, "port %d", event.element.port_num);
		printf("%s", ibv_event_type_str(event.event_type));
		say_port(context);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
	CHECK(!ibv_close_device(context), "close_device");
	return 0;
}
