/* host_names.h - rt.h of the GPU of plain C under other names, beside which rt_cuda.c has its own.
 */
#ifndef PG_TESTS_HOST_NAMES_H
#define PG_TESTS_HOST_NAMES_H

#define pg__rt_alloc        host__rt_alloc
#define pg__rt_bus          host__rt_bus
#define pg__rt_clear        host__rt_clear
#define pg__rt_close        host__rt_close
#define pg__rt_copy         host__rt_copy
#define pg__rt_copy_from    host__rt_copy_from
#define pg__rt_count        host__rt_count
#define pg__rt_error        host__rt_error
#define pg__rt_event_free   host__rt_event_free
#define pg__rt_event_new    host__rt_event_new
#define pg__rt_free         host__rt_free
#define pg__rt_get          host__rt_get
#define pg__rt_graph_free   host__rt_graph_free
#define pg__rt_host_alloc   host__rt_host_alloc
#define pg__rt_host_free    host__rt_host_free
#define pg__rt_mark         host__rt_mark
#define pg__rt_memory       host__rt_memory
#define pg__rt_name         host__rt_name
#define pg__rt_now          host__rt_now
#define pg__rt_open         host__rt_open
#define pg__rt_open_beside  host__rt_open_beside
#define pg__rt_ordinal      host__rt_ordinal
#define pg__rt_put          host__rt_put
#define pg__rt_record_begin host__rt_record_begin
#define pg__rt_record_end   host__rt_record_end
#define pg__rt_replay       host__rt_replay
#define pg__rt_stream       host__rt_stream
#define pg__rt_sync         host__rt_sync
#define pg__rt_time         host__rt_time
#define pg__rt_wait         host__rt_wait

#endif
