-- Grain: one example of a class of failure, at most two a class: the first of each arm, then
-- the second.
with failures as (
    select * from marts.failures where attempt_id is not null
),

ranked as (
    select
        *,
        row_number() over (
            partition by class, arm
            order by instance_position, repeat
        ) as rank_in_arm
    from failures
),

final as (
    select class, arm, instance_id, repeat, attempt_id
    from ranked
    qualify row_number() over (partition by class order by rank_in_arm, position, arm) <= 2
)

select * from final
order by class, instance_id, arm, repeat
