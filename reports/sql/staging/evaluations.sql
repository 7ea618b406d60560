-- Grain: one grading of one prediction.
with evaluations as (
    select * from main.evaluations
),

final as (
    select
        experiment,
        arm,
        attempt_id,
        instance_id,
        repeat,
        patch_sha256,
        environment,
        outcome,
        outcome = 'infrastructure' as is_infrastructure,
        resolved,
        reason,
        reward,
        audited_verdict,
        coalesce(audited_verdict = 'suspect', false) as is_suspect,
        coalesce(audit_reasons, []) as audit_reasons,
        coalesce(gradings, 1) as gradings,
        coalesce(len(fail_to_pass_failure), 0) as fail_to_pass_failures,
        coalesce(len(pass_to_pass_failure), 0) as pass_to_pass_failures,
        image_digest,
        memory_gb, cpus, pids, disk_gb,
        harness_version,
        timeout_s,
        started_at at time zone 'UTC' as started_at_utc,
        duration_s
    from evaluations
)

select * from final
