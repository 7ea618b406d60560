-- Must be empty: model calls whose attempt is not in `attempts`, counted by attempt.
with counted as (
    select * from marts.attempt_calls
),

attempts as (
    select * from staging.attempts
),

orphans as (
    select attempt_id, calls
    from counted
    anti join attempts using (attempt_id)
),

final as (
    select
        attempt_id,
        any_value(instance_id) as instance_id,
        any_value(arm) as arm,
        any_value(calls) as calls
    from orphans
    inner join staging.llm_calls using (attempt_id)
    group by attempt_id
)

select * from final
