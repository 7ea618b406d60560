-- Grain: one instance whose attempts, or whose gradings, are known to have had different limits.
with used as (
    select 'attempt' as what, instance_id, (memory_gb, cpus, pids, disk_gb) as limits
    from marts.counted_attempts
    where memory_gb is not null

    union all

    select 'grading' as what, instance_id, (memory_gb, cpus, pids, disk_gb) as limits
    from marts.counted_evaluations
    where memory_gb is not null
),

final as (
    select distinct instance_id
    from (
        select instance_id
        from used
        group by what, instance_id
        having count(distinct limits) > 1
    )
)

select * from final
