-- Grain: one declared arm, one kind of limit (usd or calls per cell) and one amount that a cell of
-- the arm used. `resolved` are the cells that would have been resolved under a limit of this
-- amount: those that used no more. `spent` is what all cells together would have used, each at most
-- the limit. Only cells that ran and whose amount is fully known are counted.
with cells as (
    select
        arm,
        position,
        state = 'resolved' as is_resolved,
        case when is_cost_complete then cost_usd end as usd,
        model_calls::double as calls
    from marts.cells
    where attempt_id is not null
),

known as (
    unpivot cells
    on usd, calls
    into name kind value amount
),

amounts as (
    select
        arm,
        position,
        kind,
        amount,
        count(*) as cells,
        count(*) filter (is_resolved) as resolved
    from known
    group by all
),

accumulated as (
    select
        arm,
        position,
        kind,
        amount,
        sum(resolved) over up_to as resolved,
        sum(amount * cells) over up_to as used_below,
        sum(cells) over every - sum(cells) over up_to as cells_above
    from amounts
    window
        every as (partition by arm, kind),
        up_to as (partition by arm, kind order by amount)
),

final as (
    select
        arm,
        position,
        kind,
        amount as most,
        resolved::bigint as resolved,
        used_below + amount * cells_above as spent
    from accumulated
)

select * from final
order by position, kind, most
