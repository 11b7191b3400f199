/* What every call goes through: the scenario as it is now, the life of the library, handles and faults. */
#ifndef SESSION_H
#define SESSION_H

#include "abi.h"
#include "world.h"

/* What a call is about: nothing, a handle, or the card with an index, a UUID or a PCI address. */
typedef struct {
    enum { ABOUT_NOTHING, ABOUT_HANDLE, ABOUT_INDEX, ABOUT_UUID, ABOUT_PCI } kind;
    const Handle *handle;
    unsigned index;
    const char *text;
} About;

typedef struct {
    World *world;
    Card *card;
    Instance *instance; /* NULL: the whole card */
    int64_t now_us;
} Subject;

/* Return SUCCESS with the world locked and the call's subject, or a code with nothing locked. */
int enter(const char *call, About about, Subject *subject);
int leave(int code);

/* nvmlInit and nvmlShutdown, which work (and fail) also where nothing else does. */
int open_session(const char *call);
int close_session(void);

/* Return a handle of this session, for a card or one of its instances. */
Handle *handle_of(const char *uuid);

static inline About about_nothing(void) { return (About){.kind = ABOUT_NOTHING}; }
static inline About about_handle(const Handle *handle) { return (About){.kind = ABOUT_HANDLE, .handle = handle}; }

#endif
