-- Must be empty: patches graded twice to an end under the same conditions.
with evaluations as (
    select * from staging.evaluations
),

final as (
    select
        attempt_id,
        patch_sha256,
        environment,
        image_digest,
        harness_version,
        timeout_s,
        count(*) as gradings
    from evaluations
    where not is_infrastructure
    group by all
    having count(*) > 1
)

select * from final
