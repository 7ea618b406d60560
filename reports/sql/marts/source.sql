-- Grain: one experiment: where its numbers come from.
with declared as (
    select * from staging.experiments
),

-- What each declaration says of its arms, without what may change from run to run: the fields that
-- `flows/experiment.py` lists. Their digests alone do not tell, as earlier releases had them of
-- everything. The digest of the rows and the environment have separate columns.
stripped as (
    select
        * exclude (dataset, declaration, instance_ids),
        hash(instance_ids) as instances,
        json_merge_patch(
            declaration,
            '{"dataset": null, "split": null, "select": null, "environment": null,
              "concurrency": null, "execution": null, "isolation": null, "rate_limits": null,
              "images": null, "audit": null, "gates": null}'
        ) as declaration
    from main.experiments
),

declared_arms as (
    select
        experiment,
        declared_at,
        declaration_digest,
        list(struct_pack(*columns(* exclude (declared_at, declaration_digest))) order by arm) as arms
    from stripped
    group by experiment, declared_at, declaration_digest
),

declarations as (
    select experiment, count(distinct arms) as declarations
    from declared_arms
    group by experiment
),

attempts as (
    select
        experiment,
        min(started_at_utc) as first_attempt_utc,
        max(started_at_utc) as last_attempt_utc,
        list_sort(list(distinct versions)) as versions
    from marts.counted_attempts
    group by experiment
),

evaluations as (
    select
        experiment,
        max(started_at_utc) as last_evaluation_utc,
        list_sort(list(distinct harness_version)) as harness_versions
    from marts.counted_evaluations
    group by experiment
),

final as (
    select
        declared.* exclude (arm, position, agent, model, simulated, declaration),
        declarations.* exclude (experiment),
        attempts.* exclude (experiment),
        evaluations.* exclude (experiment)
    from declared
    inner join declarations using (experiment)
    left join attempts using (experiment)
    left join evaluations using (experiment)
    qualify row_number() over (partition by experiment order by position, arm) = 1
)

select * from final
