-- Must be empty: gradings whose outcome and official verdict disagree.
with evaluations as (
    select * from staging.evaluations
),

final as (
    select attempt_id, outcome, resolved
    from evaluations
    where (outcome = 'resolved') <> resolved
)

select * from final
