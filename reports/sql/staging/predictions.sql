-- Grain: one prediction.
with predictions as (
    select * from main.predictions
),

final as (
    select
        experiment,
        arm,
        attempt_id,
        instance_id,
        repeat,
        patch_sha256,
        regexp_matches(model_patch, '\S') as has_patch
    from predictions
)

select * from final
