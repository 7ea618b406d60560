-- Must be empty: attempts whose program claims a cost more than 5 % from the metered one.
-- A ten-thousandth of a dollar is left to rounding.
with attempts as (
    select * from staging.attempts
),

final as (
    select attempt_id, cost_usd as metered_usd, claimed_usd
    from attempts
    where
        is_cost_complete
        and abs(claimed_usd - cost_usd) > greatest(0.05 * greatest(claimed_usd, cost_usd), 1e-4)
)

select * from final
