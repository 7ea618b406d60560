-- Grain: one planned cell (experiment × arm × instance × repeat), with its repository and result.
with planned as (
    select * from marts.planned_cells inner join marts.repositories using (instance_id)
),

attempts as (
    select * exclude (agent, base_attempt_id, disk_gb, pids, versions)
    from marts.counted_attempts
),

evaluations as (
    select
        experiment,
        attempt_id,
        outcome as graded,
        resolved,
        reason,
        audited_verdict,
        is_suspect as is_graded_suspect,
        audit_reasons as graded_reasons,
        fail_to_pass_failures, pass_to_pass_failures,
        environment as graded_in
    from marts.counted_evaluations
),

-- Imported runs may come without patches, so that a missing prediction means "no patch" only
-- where nothing was graded either. Not all imports say whether there was one.
predictions as (
    select experiment, attempt_id, bool_or(has_patch) as has_patch
    from staging.predictions
    group by experiment, attempt_id
),

joined as (
    select
        planned.*,
        attempts.* exclude (experiment, arm, instance_id, repeat),
        evaluations.* exclude (experiment, attempt_id),
        coalesce(has_patch, graded is not null or 'unknown' in (provider, outcome)) as has_patch
    from planned
    left join attempts using (experiment, arm, instance_id, repeat)
    left join evaluations using (experiment, attempt_id)
    left join predictions using (experiment, attempt_id)
),

stated as (
    select
        *,
        case
            when attempt_id is null then 'missing'
            when outcome in ('budget_stop', 'interrupted', 'waiting') then 'stopped'
            when is_unfinished then 'infrastructure'
            when resolved then 'resolved'
            when not has_patch then 'no_patch'
            when graded is null then 'ungraded'
            else graded
        end as state
    from joined
),

-- Only what counts as resolved can be in doubt.
final as (
    select
        * exclude (is_unfinished, has_patch, resolved, is_graded_suspect, graded_reasons),
        state = 'resolved' and is_graded_suspect as is_suspect,
        coalesce(graded_reasons, []) as audit_reasons
    from stated
)

select * from final
