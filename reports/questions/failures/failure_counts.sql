-- Grain: one class of failure × ending × phase that occurs in one declared arm, with the number
-- of its cells.
with failures as (
    select * from marts.failures
),

final as (
    select arm, position, class, ended, phase, count(*) as cells
    from failures
    group by all
)

select * from final
order by position, arm, cells desc, class, ended, phase
