-- Grain: one declaration, with the analysis that it plans and whether results existed before it:
-- attempts or gradings that had begun and that infrastructure did not end.
with declarations as (
    select * from main.experiments
),

results as (
    select started_at_utc from staging.attempts where not is_unfinished
    union all
    select started_at_utc from staging.evaluations where not is_infrastructure
),

first_result as (
    select min(started_at_utc) as first_result_utc from results
),

-- Every arm of a declaration says the same; files from before there were families say nothing.
planned as (
    select
        declared_at at time zone 'UTC' as declared_at_utc,
        declaration_digest,
        any_value(primary_baseline) as primary_baseline,
        any_value(primary_candidate) as primary_candidate,
        any_value(primary_margin) as primary_margin,
        any_value(coalesce(family, [])) as family
    from declarations
    group by all
),

final as (
    select planned.*, coalesce(first_result_utc < declared_at_utc, false) as is_after_results
    from planned, first_result
)

select * from final
order by declared_at_utc, declaration_digest desc
