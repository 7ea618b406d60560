-- Must be empty: attempts graded as resolved that left no patch.
-- Imported runs may come without their patches.
with evaluations as (
    select * from staging.evaluations
),

predictions as (
    select * from staging.predictions where has_patch
),

final as (
    select attempt_id, instance_id, arm
    from evaluations
    anti join predictions using (attempt_id)
    where resolved and environment <> 'imported'
)

select * from final
