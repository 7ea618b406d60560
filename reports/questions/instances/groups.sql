-- Grain: one declared arm × group of instances (a repository or a difficulty), with the instances and
-- cells that it plans there and the cells that it resolves.
with instances as (
    select instance_id, repository, difficulty from marts.instances
),

grouped as (
    unpivot instances on repository, difficulty into name kind value name
),

final as (
    select
        arm,
        position,
        kind,
        name,
        count(*) as instances,
        sum(planned)::bigint as planned,
        sum(resolved)::bigint as resolved
    from marts.arm_instances
    inner join grouped using (instance_id)
    group by all
)

select * from final
order by kind, name, position, arm
