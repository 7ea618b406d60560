-- Grain: one planned cell whose patch was graded more than once, with a flag for agreement.
-- An audit grades again and notes a disagreement as a reason; another harness leaves a separate row.
with cells as (
    select arm, position, instance_id, instance_position, repeat, attempt_id from marts.cells
),

evaluations as (
    select
        attempt_id,
        sum(gradings)::bigint as gradings,
        bool_or(resolved) as is_ever_resolved,
        bool_and(resolved) as is_always_resolved,
        flatten(list(audit_reasons)) as reasons
    from staging.evaluations
    where not is_infrastructure
    group by attempt_id
    having sum(gradings) > 1
),

final as (
    select
        cells.*,
        gradings,
        is_ever_resolved <> is_always_resolved
            or len(
                list_filter(
                    reasons,
                    lambda reason:
                        regexp_matches(reason, '^flaky: (resolved in the first|.*, resolved in another)')
                )
            ) > 0 as is_flipped,
        len(list_filter(reasons, lambda reason: starts_with(reason, 'flaky: '))) > 0 as is_flaky
    from cells
    inner join evaluations using (attempt_id)
)

select * from final
order by instance_position, repeat, position
