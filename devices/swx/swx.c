/*
 * A programmable switch in software: DPDK's SWX pipeline (22.11 or newer) between network interfaces, with a program in its language
 * (switchml.spec, olaf.spec) and the entries of its tables.
 *
 *   swx --ports e0,e1 --spec switchml.spec --tables tables.txt --counters counters.json
 *
 * Says "ready" on stderr, works until SIGTERM, and prints its counts as one line of JSON on stdout. The file of --counters has the same line
 * while it works: written anew, under another name first, when frames were counted and none is waiting, and ten times a second under load.
 */
#define _GNU_SOURCE
#include "swx.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_swx_ctl.h>
#include <rte_swx_port_ethdev.h>
#include <rte_swx_port_source_sink.h>

/* Ethernet, IPv4 and UDP: what the programs take out of any frame. */
enum { HEAD = 42, BUFFERS = 16384, FRAME = 2048, ROOM = FRAME + RTE_PKTMBUF_HEADROOM, QUEUE = 1024, BURST = 32 };

/* Instructions at a time; how many times until what waits to leave is sent in any case; times without a frame until the thread sleeps. */
enum { QUANTUM = 640, FLUSH_EVERY = 32, PATIENCE = 64, SLEEP_US = 50 };

static struct {
    const char *ports, *spec, *tables, *counters, *driver, *memory;
    int core;
} options = {.driver = "af_packet", .memory = "256", .core = -1};

static struct {
    struct rte_swx_pipeline *pipeline;
    struct rte_swx_ctl_pipeline *ctl;
    struct rte_mempool *buffers;
    char names[PORTS_MAX][RTE_ETH_NAME_MAX_LEN];
    uint16_t n_ports;
    struct counters counters;
    uint64_t short_frames;
} device;

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "swx: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(3);
}

static void hold(int status, const char *what) {
    if (status < 0) fail("%s: %s", what, strerror(-status));
}

static uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

/* The pipeline takes headers out of frames without asking how long those are: frames shorter than they say stay outside. */
static uint16_t only_whole(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t n, uint16_t max, void *unused) {
    (void)port, (void)queue, (void)max, (void)unused;
    uint16_t kept = 0;
    for (uint16_t i = 0; i < n; i++) {
        const uint8_t *f = rte_pktmbuf_mtod(frames[i], const uint8_t *);
        size_t len = rte_pktmbuf_data_len(frames[i]);
        bool ipv4 = len >= HEAD && get16(f + 12) == RTE_ETHER_TYPE_IPV4;
        if (len >= HEAD && (!ipv4 || len >= (size_t)get16(f + 16) + RTE_ETHER_HDR_LEN)) {
            frames[kept++] = frames[i];
        } else {
            rte_pktmbuf_free(frames[i]);
            device.short_frames++;
        }
    }
    return kept;
}

/* Frames of a port's two rings, as many as this process may lock in memory: they hold what comes while the host does something else. */
static int ring_frames(int ports) {
    int frames = 8192;
    for (; frames > 256; frames /= 2) {
        size_t bytes = (size_t)ports * 2 * (size_t)frames * FRAME;
        void *tried = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
        if (tried == MAP_FAILED) continue;
        munmap(tried, bytes);
        break;
    }
    return frames;
}

/* DPDK's environment: memory of this process only, no PCI, one core, a virtual device for each interface. */
static void start_environment(void) {
    static char vdevs[PORTS_MAX][128], cores[16], prefix[32];
    const char *words[24 + PORTS_MAX] = {"swx", "--no-shconf", "--no-huge", "--no-pci", "--no-telemetry", "--log-level=4", "-m", options.memory};
    int n = 8;
    snprintf(prefix, sizeof prefix, "swx-%d", getpid());
    words[n++] = "--file-prefix";
    words[n++] = prefix;
    if (options.core < 0) options.core = sched_getcpu();
    snprintf(cores, sizeof cores, "%d", options.core);
    words[n++] = "-l";
    words[n++] = cores;
    char more[64] = "", *names = strdup(options.ports);
    int ports = 1;
    for (const char *p = options.ports; *p; p++) ports += *p == ',';
    if (!strcmp(options.driver, "af_packet")) snprintf(more, sizeof more, ",framesz=%d,blocksz=65536,framecnt=%d", FRAME, ring_frames(ports));
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        if (device.n_ports == PORTS_MAX) fail("at most %d ports", PORTS_MAX);
        snprintf(device.names[device.n_ports], sizeof device.names[0], "net_%s%d", options.driver, device.n_ports);
        snprintf(vdevs[device.n_ports], sizeof vdevs[0], "--vdev=%s,iface=%s%s", device.names[device.n_ports], name, more);
        words[n++] = vdevs[device.n_ports++];
    }
    if (rte_eal_init(n, (char **)words) < 0) fail("the environment of DPDK does not start: %s", rte_strerror(rte_errno));
}

static void start_port(uint16_t i) {
    struct rte_eth_conf conf = {0};
    uint16_t port;
    hold(rte_eth_dev_get_port_by_name(device.names[i], &port), device.names[i]);
    hold(rte_eth_dev_configure(port, 1, 1, &conf), "port");
    hold(rte_eth_rx_queue_setup(port, 0, QUEUE, 0, NULL, device.buffers), "receive queue");
    hold(rte_eth_tx_queue_setup(port, 0, QUEUE, 0, NULL), "send queue");
    if (!rte_eth_add_rx_callback(port, 0, only_whole, NULL)) fail("port: no callbacks");
    hold(rte_eth_dev_start(port), "port");
    rte_eth_promiscuous_enable(port);
    struct rte_swx_port_ethdev_reader_params reader = {.dev_name = device.names[i], .burst_size = BURST};
    struct rte_swx_port_ethdev_writer_params writer = {.dev_name = device.names[i], .burst_size = BURST};
    hold(rte_swx_pipeline_port_in_config(device.pipeline, i, "ethdev", &reader), "input port");
    hold(rte_swx_pipeline_port_out_config(device.pipeline, i, "ethdev", &writer), "output port");
}

/* Lines of a table's name and an entry as the pipeline's control reads it; # begins a comment. */
static void fill_tables(void) {
    FILE *file = fopen(options.tables, "r");
    char line[1024];
    if (!file) fail("%s: %s", options.tables, strerror(errno));
    for (int n = 1; fgets(line, sizeof line, file); n++) {
        line[strcspn(line, "#\n")] = 0;
        char *table = line + strspn(line, " \t"), *text = table + strcspn(table, " \t");
        if (!*table) continue;
        if (*text) *text++ = 0;
        int blank = 0;
        struct rte_swx_table_entry *entry = rte_swx_ctl_pipeline_table_entry_read(device.ctl, table, text, &blank);
        if (!entry) fail("%s:%d: no entry of table %s: %s", options.tables, n, table, text);
        hold(rte_swx_ctl_pipeline_table_entry_add(device.ctl, table, entry), table);
    }
    fclose(file);
    hold(rte_swx_ctl_pipeline_commit(device.ctl, 1), "tables");
}

static void build(void) {
    device.buffers = rte_pktmbuf_pool_create("buffers", BUFFERS, 256, 0, ROOM, SOCKET_ID_ANY);
    if (!device.buffers) fail("buffers: %s", rte_strerror(rte_errno));
    hold(rte_swx_pipeline_config(&device.pipeline, "device", 0), "pipeline");
    for (uint16_t i = 0; i < device.n_ports; i++) start_port(i);
    /* The instruction `drop` sends to the last port. */
    struct rte_swx_port_sink_params nowhere = {0};
    hold(rte_swx_pipeline_port_out_config(device.pipeline, device.n_ports, "sink", &nowhere), "port of dropped frames");
    read_specification(device.pipeline, options.spec, &device.counters);
    hold(rte_swx_pipeline_build(device.pipeline), "the pipeline cannot be built");
    device.ctl = rte_swx_ctl_pipeline_create(device.pipeline);
    if (!device.ctl) fail("no control of the pipeline");
    /* Session i copies a whole frame to port i. */
    for (uint16_t i = 0; i < device.n_ports; i++) {
        struct rte_swx_pipeline_mirroring_session_params copy = {.port_id = i};
        hold(rte_swx_ctl_pipeline_mirroring_session_set(device.pipeline, i, &copy), "mirroring");
    }
    fill_tables();
}

static uint64_t received(void) {
    uint64_t n = device.short_frames;
    for (uint16_t i = 0; i < device.n_ports; i++) {
        struct rte_swx_port_in_stats stats = {0};
        rte_swx_ctl_pipeline_port_in_stats_read(device.pipeline, i, &stats);
        n += stats.n_pkts;
    }
    return n;
}

/* One object of counts that only grow. */
static void print_counters(FILE *to) {
    fprintf(to, "{\"short\":%" PRIu64, device.short_frames);
    for (size_t i = 0; i < device.counters.n; i++) {
        char name[RTE_SWX_NAME_SIZE + 8];
        uint64_t value = 0;
        snprintf(name, sizeof name, "count_%s", device.counters.names[i]);
        hold(rte_swx_ctl_pipeline_regarray_read(device.pipeline, name, 0, &value), name);
        fprintf(to, ",\"%s\":%" PRIu64, device.counters.names[i], value);
    }
    for (uint16_t i = 0; i < device.n_ports; i++) {
        struct rte_swx_port_in_stats in = {0};
        struct rte_eth_stats eth = {0};
        uint16_t port;
        rte_swx_ctl_pipeline_port_in_stats_read(device.pipeline, i, &in);
        if (!rte_eth_dev_get_port_by_name(device.names[i], &port)) rte_eth_stats_get(port, &eth);
        fprintf(to, ",\"port%u_in\":%" PRIu64 ",\"port%u_out\":%" PRIu64 ",\"port%u_unsent\":%" PRIu64, i, in.n_pkts, i, eth.opackets, i,
                eth.oerrors);
    }
    fprintf(to, "}\n");
}

static void write_counters(void) {
    char path[4096];
    if (!options.counters) return;
    snprintf(path, sizeof path, "%s.new", options.counters);
    FILE *file = fopen(path, "w");
    if (!file) fail("%s: %s", path, strerror(errno));
    print_counters(file);
    if (fclose(file) || rename(path, options.counters)) fail("%s: %s", options.counters, strerror(errno));
}

static void run(void) {
    uint64_t second = rte_get_tsc_hz(), written_at = rte_rdtsc(), written = 0, before = 0;
    unsigned idle = 0;
    write_counters();
    fprintf(stderr, "ready\n");
    for (unsigned turn = 0; !stopped; turn++) {
        rte_swx_pipeline_run(device.pipeline, QUANTUM);
        uint64_t now = received();
        idle = now == before ? idle + 1 : 0;
        before = now;
        if (idle || turn % FLUSH_EVERY == 0) rte_swx_pipeline_flush(device.pipeline);
        if (now != written && (idle >= PATIENCE || (turn % FLUSH_EVERY == 0 && rte_rdtsc() - written_at > second / 10))) {
            write_counters();
            written = now;
            written_at = rte_rdtsc();
        }
        if (idle >= PATIENCE) usleep(SLEEP_US);
    }
}

static int core(const char *word) {
    char *end = NULL;
    unsigned long value = strtoul(word, &end, 10);
    if (word[0] >= '0' && word[0] <= '9' && !*end && value < RTE_MAX_LCORE) return (int)value;
    fprintf(stderr, "swx: --core %s: not a whole number from 0 to %d\n", word, RTE_MAX_LCORE - 1);
    exit(2);
}

static void read_options(int n, char **words) {
    static const struct option known[] = {
        {"ports", required_argument, NULL, 'p'},    {"spec", required_argument, NULL, 's'},   {"tables", required_argument, NULL, 't'},
        {"counters", required_argument, NULL, 'c'}, {"driver", required_argument, NULL, 'd'}, {"core", required_argument, NULL, 'C'},
        {"memory", required_argument, NULL, 'm'},   {0}};
    for (int o; (o = getopt_long(n, words, "", known, NULL)) != -1;) {
        switch (o) {
        case 'p': options.ports = optarg; break;
        case 's': options.spec = optarg; break;
        case 't': options.tables = optarg; break;
        case 'c': options.counters = optarg; break;
        case 'd': options.driver = optarg; break;
        case 'm': options.memory = optarg; break;
        case 'C': options.core = core(optarg); break;
        default: exit(2);
        }
    }
    if (!options.ports || !options.spec || !options.tables || optind != n) {
        fprintf(stderr, "swx --ports A[,B...] --spec FILE --tables FILE [--counters FILE] [--driver af_packet|af_xdp] [--core N] [--memory MB]\n");
        exit(2);
    }
}

int main(int n, char **words) {
    struct sigaction action = {.sa_handler = stop};
    read_options(n, words);
    start_environment();
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    build();
    run();
    write_counters();
    print_counters(stdout);
    /* The library makes an empty folder, and leaves it; all else it holds in this process. */
    rmdir(rte_eal_get_runtime_dir());
    fflush(NULL);
    _exit(0);
}
