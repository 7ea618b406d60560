-- Must be empty: predictions whose attempt is not in `attempts`.
with predictions as (
    select * from staging.predictions
),

attempts as (
    select * from staging.attempts
),

final as (
    select attempt_id, instance_id, arm
    from predictions
    anti join attempts using (attempt_id)
)

select * from final
