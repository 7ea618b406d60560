-- Grain: one planned cell (experiment × arm × instance × repeat): the denominator of every rate.
with declared as (
    select * from staging.experiments
),

instances as (
    select
        experiment,
        arm,
        position,
        repeats,
        unnest(instance_ids) as instance_id,
        generate_subscripts(instance_ids, 1) as instance_position
    from declared
),

final as (
    select
        experiment,
        arm,
        position,
        instance_id,
        instance_position,
        unnest(range(repeats)) as repeat
    from instances
)

select * from final
