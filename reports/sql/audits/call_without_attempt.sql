-- Must be empty: model calls whose attempt is not in `attempts`, counted by attempt.
with calls as (
    select * from marts.attempt_calls
),

attempts as (
    select * from staging.attempts
),

final as (
    select attempt_id, instance_id, arm, calls
    from calls
    anti join attempts using (attempt_id)
)

select * from final
