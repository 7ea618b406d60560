-- Must be empty: attempts whose cost is not the sum of their priced calls.
-- Imported runs may come without their calls, or with a total next to calls of unknown cost: their
-- unpriced calls are then null. A millionth is left to floating point.
with attempts as (
    select * from staging.attempts
),

calls as (
    select attempt_id, calls, cost_usd from marts.attempt_calls
),

compared as (
    select
        attempt_id,
        coalesce(attempts.cost_usd, 0) as attempt_usd,
        coalesce(calls.cost_usd, 0) as calls_usd,
        environment = 'imported' and (calls is null or unpriced_calls is null) as is_without_calls
    from attempts
    left join calls using (attempt_id)
),

final as (
    select attempt_id, attempt_usd, calls_usd
    from compared
    where not is_without_calls and abs(attempt_usd - calls_usd) > 1e-6 * greatest(1, attempt_usd)
)

select * from final
