/* What the parts of the device share. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_MAX = 9216, SLOTS_MAX = 64, WORKERS_MAX = 32 };

enum protocol { NONE, OLAF, OLAF_STRICT, SWITCHML, TRIO_ML };
enum fault { FORWARD, DROP, DUPLICATE, CORRUPT, REORDER, MUTE, LIMIT, FLOOD };

struct options {
    const char *in, *out;
    enum protocol protocol;
    enum fault fault;
    double share;       /* of frames that the fault takes */
    double wrong_share; /* of merges or results that are added wrongly */
    double rate_mbps;   /* of the link behind OLAF's queue */
    int slots;          /* of OLAF's queue */
    int workers;        /* that send */
    int per_cluster;    /* workers of an OLAF cluster */
    uint32_t first;     /* address of worker 0 */
    uint32_t group;     /* that results go to */
    double limit_pps;   /* of the token bucket */
    double burst;       /* tokens that it holds */
    int seconds;
};
extern struct options options;

/* In the order in which they are printed. */
#define COUNTS(EACH)                                                                                                          \
    EACH(received) EACH(sent) EACH(back_received) EACH(back_sent) EACH(dropped) EACH(duplicated) EACH(corrupted)              \
    EACH(reordered) EACH(merged) EACH(replaced) EACH(full) EACH(wrong) EACH(results) EACH(repeated) EACH(refused)             \
    EACH(overrun)
struct counts {
#define EACH(name) uint64_t name;
    COUNTS(EACH)
#undef EACH
};
extern struct counts counts;

int64_t now_ns(void);
bool chance(double share);
void leave(uint8_t *bytes, size_t len);

/* Aggregators: what they do with a frame that arrived. */
void olaf(uint8_t *bytes, size_t len);
void switchml(uint8_t *bytes, size_t len);
void trio_ml(uint8_t *bytes, size_t len);

/* OLAF's link: sends what is due; when the next frame is due, 0 for never. */
void depart(int64_t now);
int64_t next_departure(void);

#endif
