/* Why a card is slow: clocks held down, ECC errors, remapped rows, the recovery action, XID events. Assumptions: README.md. */
#include <stddef.h>
#include <stdlib.h>

#include "export.h"
#include "session.h"

/* A card's events since it was registered; the xid line has so many at one time. */
struct EventSet {
    Handle *device;
    int64_t since_us;
    uint64_t taken;
};

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Handle *device, uint64_t *reasons)
{
    ENTER(about_handle(device));
    *reasons = subject.card->clock_reasons;
    return leave(subject.instance == NULL ? SUCCESS : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetTotalEccErrors(Handle *device, unsigned kind, unsigned counter, uint64_t *count)
{
    ENTER(about_handle(device));
    if (kind > 1 || counter > 1)
        return leave(INVALID_ARGUMENT);
    *count = kind == 1 ? subject.card->ecc_errors : 0;
    return leave(subject.card->has_ecc && subject.instance == NULL ? SUCCESS : NOT_SUPPORTED);
}

EXPORT int nvmlDeviceGetRemappedRows(Handle *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                     unsigned *failed)
{
    ENTER(about_handle(device));
    *corrected = *uncorrected = 0;
    *pending = subject.card->rows_pending;
    *failed = subject.card->rows_failed;
    return leave(subject.card->has_ecc && subject.instance == NULL ? SUCCESS : NOT_SUPPORTED);
}

/* Of all fields only the recovery action is known, and of whole cards only; each field has a code of its own. */
EXPORT int nvmlDeviceGetFieldValues(Handle *device, int count, FieldValue *values)
{
    ENTER(about_handle(device));
    for (int i = 0; i < count; i++) {
        FieldValue *one = &values[i];
        one->code = NOT_SUPPORTED;
        if (one->field != RECOVERY_ACTION || !subject.card->has_recovery || subject.instance != NULL)
            continue;
        one->code = subject.card->recovery_code;
        one->type = VALUE_UNSIGNED_INT;
        one->value.u = subject.card->recovery_action;
    }
    return leave(SUCCESS);
}

EXPORT int nvmlEventSetCreate(EventSet **set)
{
    ENTER(about_nothing());
    *set = calloc(1, sizeof **set);
    return leave(*set == NULL ? UNKNOWN : SUCCESS);
}

EXPORT int nvmlEventSetFree(EventSet *set)
{
    ENTER(about_nothing());
    free(set);
    return leave(SUCCESS);
}

EXPORT int nvmlDeviceRegisterEvents(Handle *device, uint64_t kinds, EventSet *set)
{
    ENTER(about_handle(device));
    if (kinds != XID_EVENTS || subject.instance != NULL)
        return leave(NOT_SUPPORTED);
    set->device = device;
    set->since_us = subject.now_us;
    return leave(SUCCESS);
}

/* An event that waits; without any, TIMEOUT at once, as callers here wait 0 ms. */
EXPORT int nvmlEventSetWait_v2(EventSet *set, EventData *event, unsigned timeout_ms)
{
    const Card *card;

    ENTER(about_handle(set->device));
    card = subject.card;
    if (timeout_ms != 0)
        return leave(INVALID_ARGUMENT);
    if (card->xid_at_us <= set->since_us || card->xid_at_us > subject.now_us || set->taken >= card->xid_count)
        return leave(TIMEOUT);
    set->taken++;
    *event = (EventData){.device = set->device, .type = XID_EVENTS, .data = card->xid};
    return leave(SUCCESS);
}
