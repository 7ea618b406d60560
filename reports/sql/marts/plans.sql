-- Grain: one declaration, with its planned analysis, and a flag for results that existed before.
-- Results start with the experiment's own first attempt that infrastructure did not end. Gradings
-- say nothing: a verdict on the same patch may have been given for another experiment, long ago.
with declarations as (
    select * from main.experiments
),

-- A graded prediction does not state the start of its attempt, which was before the declaration.
first_result as (
    select min(coalesce(started_at_utc, timestamp '-infinity')) as first_result_utc
    from staging.attempts
    where not is_unfinished
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

-- What is declared with the first import counts, and later changes do not.
import as (
    select
        bool_and(environment = 'imported') as is_import,
        min(declared_at at time zone 'UTC') filter (primary_baseline is not null) as planned_at_utc
    from declarations
),

final as (
    select
        planned.*,
        case
            when is_import then coalesce(planned_at_utc < declared_at_utc, false)
            else coalesce(first_result_utc < declared_at_utc, false)
        end as is_after_results
    from planned, first_result, import
)

select * from final
order by declared_at_utc, declaration_digest desc
