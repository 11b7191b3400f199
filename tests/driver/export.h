/* How a call begins: its own name, what it is about, and out with a code where something is wrong. */
#ifndef EXPORT_H
#define EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#define ENTER(about)                                                                                                   \
    Subject subject;                                                                                                   \
    int refused = enter(__func__, about, &subject);                                                                    \
    if (refused != SUCCESS)                                                                                            \
        return refused

#endif
