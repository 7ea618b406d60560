-- Grain: one example of a class of failure, at most two a class: the first of each arm, then
-- the second.
with firsts as (
    select
        class,
        arm,
        position,
        min((instance_position, repeat, instance_id, attempt_id), 2) as cells
    from marts.failures
    where attempt_id is not null
    group by class, arm, position
),

ranked as (
    select
        class,
        arm,
        position,
        unnest(cells) as cell,
        generate_subscripts(cells, 1) as rank_in_arm
    from firsts
),

final as (
    select
        class,
        arm,
        cell[3] as instance_id,
        cell[2] as repeat,
        cell[4] as attempt_id
    from ranked
    qualify row_number() over (partition by class order by rank_in_arm, position, arm) <= 2
)

select * from final
order by class, instance_id, arm, repeat
