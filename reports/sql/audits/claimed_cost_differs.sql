-- Must be empty: attempts of programs whose own claim of their cost is more than 5 % from what was
-- metered. A ten-thousandth of a dollar is left to rounding.
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
