-- Grain: one declared arm × number of planned × number of resolved attempts at an instance, with the
-- number of such instances.
with arm_instances as (
    select * from marts.arm_instances
),

final as (
    select arm, position, planned, resolved, count(*) as instances
    from arm_instances
    group by all
)

select * from final
order by position, arm, planned, resolved
