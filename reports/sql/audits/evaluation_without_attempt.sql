-- Must be empty: gradings whose attempt is not in `attempts`.
with evaluations as (
    select * from staging.evaluations
),

attempts as (
    select * from staging.attempts
),

final as (
    select attempt_id, instance_id, arm
    from evaluations
    anti join attempts using (attempt_id)
)

select * from final
