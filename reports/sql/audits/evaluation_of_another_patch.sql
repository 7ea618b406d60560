-- Must be empty: gradings of a patch that is not the one its attempt predicted.
with evaluations as (
    select * from staging.evaluations
),

predictions as (
    select attempt_id, list(patch_sha256) as predicted
    from staging.predictions
    group by attempt_id
),

final as (
    select attempt_id, patch_sha256, predicted
    from evaluations
    inner join predictions using (attempt_id)
    where not list_contains(predicted, patch_sha256)
)

select * from final
