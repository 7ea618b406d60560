-- Must be empty: attempts of programs without a metered call, or with calls that cost nothing.
-- They are not free: nothing is known about their cost.
with attempts as (
    select * from staging.attempts
),

final as (
    select attempt_id, model_calls, cost_usd
    from attempts
    where
        agent = 'command'
        and not is_unfinished
        and (model_calls = 0 or is_unmetered)
)

select * from final
