// Connections one after the other and many at once, with synchronous endpoints: each carries a message both ways. At the
// end the process has as many descriptors as after the first ones, and hardly more memory.
//
// usage: cycles ADDRESS SEQUENTIAL CONCURRENT

#include <dirent.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT "7471"
#define CHECK(what) do { if (!(what)) { perror(#what); exit(1); } } while (0)

struct end {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    char bytes[64];
};

static struct rdma_cm_id *listener;
static int total, concurrent;

static void set_attr(struct ibv_qp_init_attr *attr) {
    memset(attr, 0, sizeof *attr);
    attr->cap.max_send_wr = attr->cap.max_recv_wr = 2;
    attr->cap.max_send_sge = attr->cap.max_recv_sge = 1;
    attr->sq_sig_all = 1;
}

static struct rdma_addrinfo *look_up(const char *address, int flags) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *found;
    CHECK(!rdma_getaddrinfo(address, PORT, &hints, &found));
    return found;
}

static void prepare(struct end *end) {
    CHECK((end->mr = rdma_reg_msgs(end->id, end->bytes, sizeof end->bytes)));
    CHECK(!rdma_post_recv(end->id, NULL, end->bytes, sizeof end->bytes, end->mr));
}

static void wait_for(int (*completion)(struct rdma_cm_id *, struct ibv_wc *), struct end *end) {
    struct ibv_wc wc;
    CHECK(completion(end->id, &wc) == 1);
    CHECK(wc.status == IBV_WC_SUCCESS);
}

static void finish(struct end *end) {
    rdma_disconnect(end->id);
    CHECK(!rdma_dereg_mr(end->mr));
    rdma_destroy_ep(end->id);
}

// Answers every message with itself.
static void *serve(void *unused) {
    struct end *ends = calloc(concurrent, sizeof *ends);
    for (int done = 0; done < total;) {
        int batch = done < total - concurrent ? 1 : concurrent;
        for (int i = 0; i < batch; i++) {
            CHECK(!rdma_get_request(listener, &ends[i].id));
            prepare(&ends[i]);
            CHECK(!rdma_accept(ends[i].id, NULL));
        }
        for (int i = 0; i < batch; i++) {
            wait_for(rdma_get_recv_comp, &ends[i]);
            CHECK(!rdma_post_send(ends[i].id, NULL, ends[i].bytes, sizeof ends[i].bytes, ends[i].mr, 0));
            wait_for(rdma_get_send_comp, &ends[i]);
        }
        for (int i = 0; i < batch; i++) {
            finish(&ends[i]);
        }
        done += batch;
    }
    free(ends);
    return unused;
}

static void start(struct end *end, struct rdma_addrinfo *address) {
    struct ibv_qp_init_attr attr;
    set_attr(&attr);
    CHECK(!rdma_create_ep(&end->id, address, NULL, &attr));
    prepare(end);
    CHECK(!rdma_connect(end->id, NULL));
}

static void talk(struct end *end, int number) {
    struct ibv_mr *mr;
    char words[64];
    snprintf(words, sizeof words, "message %d", number);
    CHECK((mr = rdma_reg_msgs(end->id, words, sizeof words)));
    CHECK(!rdma_post_send(end->id, NULL, words, sizeof words, mr, 0));
    wait_for(rdma_get_send_comp, end);
    wait_for(rdma_get_recv_comp, end);
    CHECK(!strcmp(words, end->bytes));
    CHECK(!rdma_dereg_mr(mr));
}

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    CHECK(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

static long resident_kib(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    CHECK(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1) {
            break;
        }
    }
    fclose(file);
    return kib;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int sequential = atoi(argv[2]), warm = sequential / 4;
    concurrent = atoi(argv[3]);
    total = sequential + concurrent;

    struct ibv_qp_init_attr attr;
    set_attr(&attr);
    struct rdma_addrinfo *passive = look_up(argv[1], RAI_PASSIVE), *active = look_up(argv[1], 0);
    CHECK(!rdma_create_ep(&listener, passive, NULL, &attr));
    CHECK(!rdma_listen(listener, 0));
    pthread_t server;
    CHECK(!pthread_create(&server, NULL, serve, NULL));

    struct end *ends = calloc(concurrent, sizeof *ends);
    int descriptors_before = 0;
    long resident_before = 0;
    for (int i = 0; i < sequential; i++) {
        if (i == warm) {
            descriptors_before = descriptors();
            resident_before = resident_kib();
        }
        start(ends, active);
        talk(ends, i);
        finish(ends);
    }
    long growth = resident_kib() - resident_before;
    for (int i = 0; i < concurrent; i++) {
        start(&ends[i], active);
    }
    for (int i = 0; i < concurrent; i++) {
        talk(&ends[i], i);
    }
    for (int i = 0; i < concurrent; i++) {
        finish(&ends[i]);
    }
    CHECK(!pthread_join(server, NULL));
    // The server's last descriptors of a connection may not be closed yet when the first count is made.
    int more = descriptors() - descriptors_before;
    printf("%d connections, %d at once: %d descriptors and %ld KiB more\n", total, concurrent, more, growth);
    rdma_destroy_ep(listener);
    rdma_freeaddrinfo(passive);
    rdma_freeaddrinfo(active);
    free(ends);
    return more > 0 || growth > 8192;
}
