-- Grain: one set of limits that containers of counted attempts or gradings had. Null where an
-- older release did not record them.
with used as (
    select 'attempt' as what, environment, memory_gb, cpus, pids, disk_gb
    from marts.counted_attempts

    union all

    select 'grading' as what, environment, memory_gb, cpus, pids, disk_gb
    from marts.counted_evaluations
),

final as (
    select
        memory_gb,
        cpus,
        pids,
        disk_gb,
        count(*) filter (what = 'attempt') as attempts,
        count(*) filter (what = 'grading') as gradings
    from used
    where environment = 'docker'
    group by memory_gb, cpus, pids, disk_gb
)

select * from final
