-- Must be empty: attempts that infrastructure ended and that left a prediction all the same.
with attempts as (
    select * from staging.attempts
),

predictions as (
    select * from staging.predictions
),

final as (
    select attempt_id, instance_id, arm
    from attempts
    semi join predictions using (attempt_id)
    where is_unfinished
)

select * from final
