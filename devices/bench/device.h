/* What the parts of the device share. */
#ifndef DEVICE_H
#define DEVICE_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NEVER INT64_MAX

enum { FRAME_MAX = 9216, SLOTS_MAX = 64, WORKERS_MAX = 32 };

enum protocol { NONE, OLAF, OLAF_STRICT, SWITCHML, TRIO_ML, LIBRA };
enum fault { FORWARD, DROP, DUPLICATE, CORRUPT, REORDER, MUTE, LIMIT, FLOOD };

struct options {
    const char *in, *out;
    enum protocol protocol;
    enum fault fault;
    double share;       /* of frames that the fault takes */
    double wrong_share; /* of merges or results that are added wrongly */
    double rate_mbps;   /* of the link behind OLAF's queue */
    int overhead;       /* of that link: bytes beside those of a frame */
    int slots;          /* of OLAF's queue */
    int workers;        /* that send */
    int per_cluster;    /* workers of an OLAF cluster */
    uint32_t first;     /* address of worker 0 */
    uint32_t group;     /* that results go to */
    double limit_pps;   /* of the token bucket */
    double burst;       /* tokens that it holds */
    int seconds;
    int needs;          /* contributions that a sum waits for; 0: those of all workers */
    double early_share; /* of sums that end one contribution too early */
    double twice_share; /* of contributions that are added twice */
    double stale_share; /* of sums that begin with what was there */
    int64_t timeout;    /* of Trio-ML's blocks and Libra's results, in ps; 0: they wait for ever */
};
extern struct options options;

/* Faults that devices on wires have, each by itself. */
struct faults {
    double swap, port, address, checksum, cut, tag, strangers, acks, bursts, station, length, astray;
    int lacks;             /* workers that are not in the table */
    uint64_t until, after; /* frames before and after which it is mute */
    uint64_t longest;      /* frame that it takes; 0: any */
    const char *counters;  /* file of its counts */
};
extern struct faults faults;
bool takes(const uint8_t *bytes, size_t len);
bool spoil(uint8_t *bytes, size_t *len);
bool stray(const uint8_t *bytes, size_t len, uint8_t *out);
void lead_astray(uint8_t *f);
bool read_fault(int key, const char *word);
void publish(void);

/* In the order in which they are printed. */
#define COUNTS(EACH)                                                                                                          \
    EACH(received) EACH(sent) EACH(back_received) EACH(back_sent) EACH(dropped) EACH(duplicated) EACH(corrupted)              \
    EACH(reordered) EACH(merged) EACH(replaced) EACH(full) EACH(wrong) EACH(results) EACH(repeated) EACH(refused)             \
    EACH(overrun) EACH(unsent) EACH(given_up)
struct counts {
#define EACH(name) uint64_t name;
    COUNTS(EACH)
#undef EACH
};
extern struct counts counts;

/* The name of the program, for messages. */
extern const char *const program;

/* Reads the words that all devices understand; exits with 2 if one is wrong. `own` gets the others: false if it does not know them. */
void read_options(int count, char **words, const struct option *more, bool (*own)(int, const char *));
/* Which of the names a word is; exits with 2 if it is none. */
int choose(const char *what, const char *word, const char *const *names);
/* The value of an option, within this range; exit with 2 if the word is none. */
double number(const char *what, const char *word, double least, double most);
uint64_t whole(const char *what, const char *word, uint64_t least, uint64_t most);
double share(const char *what, const char *word);
uint32_t address(const char *what, const char *word);
/* The counts as an object of JSON; how many bytes. */
int print_counts(char *text, size_t room);
/* The same seed makes the same choices. */
uint64_t random_bits(void);
bool chance(double share);

/* What an aggregator sends: towards the receiver of results; and towards workers, where that is another side. */
void leave(uint8_t *bytes, size_t len);
void back(uint8_t *bytes, size_t len);
/* Addresses an answer to a worker to all of its cluster, if there are groups. */
void multicast(uint8_t *bytes, size_t len);

/* The number of the worker that a source address belongs to; -1 for none. */
int worker_of(const uint8_t *bytes);

/* What the options' protocol does with a frame that arrived; times are in ps. */
void aggregate(uint8_t *bytes, size_t len, int64_t now);
void olaf(uint8_t *bytes, size_t len, int64_t now);
void switchml(uint8_t *bytes, size_t len, int64_t now);
void trio_ml(uint8_t *bytes, size_t len, int64_t now);
void libra(uint8_t *bytes, size_t len, int64_t now);

/* OLAF's link, Trio-ML's and Libra's timers: sends what is due; when the next frame is due. */
void depart(int64_t now);
int64_t next_departure(void);

#endif
