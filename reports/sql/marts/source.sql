-- Grain: one row: where the numbers of this experiment come from.
with declared as (
    select * from staging.experiments
),

declarations as (
    select count(distinct declaration_digest) as declarations from main.experiments
),

attempts as (
    select
        min(started_at_utc) as first_attempt_utc,
        max(started_at_utc) as last_attempt_utc,
        list_sort(list(distinct versions)) as versions
    from marts.counted_attempts
),

evaluations as (
    select
        max(started_at_utc) as last_evaluation_utc,
        list_sort(list(distinct harness_version)) as harness_versions
    from marts.counted_evaluations
),

final as (
    select
        declared.* exclude (arm, position, agent, model, simulated, declaration),
        declarations.*,
        attempts.*,
        evaluations.*
    from declared, declarations, attempts, evaluations
    limit 1
)

select * from final
