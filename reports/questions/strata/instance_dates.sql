-- Grain: one declared arm × day on which instances that it plans were written, as far as an attempt of
-- any arm knows it, with its cells there. The day is null for instances of an unknown one.
with known as (
    select instance_id, any_value(instance_date) as instance_date
    from staging.attempts
    group by instance_id
),

declared as (
    select arm, model from staging.experiments
),

cells as (
    select arm, position, instance_id, state from marts.cells
),

final as (
    select
        arm,
        position,
        any_value(model) as model,
        instance_date,
        count(distinct instance_id) as instances,
        count(*) as cells,
        count(*) filter (state = 'resolved') as resolved
    from cells
    inner join declared using (arm)
    left join known using (instance_id)
    group by all
)

select * from final
order by position, arm, instance_date
