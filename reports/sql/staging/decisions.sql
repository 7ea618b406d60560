-- Grain: one declaration that was decided early. Two runs may have written the same decision.
with decisions as (
    select * from main.decisions
),

final as (
    select
        experiment,
        declaration_digest,
        baseline,
        arm as candidate,
        alpha,
        complete,
        candidate_leads,
        baseline_leads,
        difference,
        e_value,
        decided_at at time zone 'UTC' as decided_at_utc
    from decisions
    qualify row_number() over (partition by experiment, declaration_digest order by decided_at) = 1
)

select * from final
