"""`durabench serve`: jobs over HTTP, and pages to follow them.

Prefect is the queue and the scheduler, the lake has the results, the journal the steps. The
service keeps nothing of its own.

serving           the program: address, token, start
app               the application: routes, errors, start and end
guard             who may ask: token, origin, size and rate
problems          errors of requests
services          what the routes work with
submitting        the body of a request as a job
board             the state of jobs, from Prefect and the lake
orders            submit, cancel, approve and revise jobs
messages          what people say to jobs, and what is said to them
results           what a job left
feed              the steps of jobs while they work
routes            JSON
pipelines         JSON of pipelines and their runs
live              the WebSocket
pages             pages of jobs
pipeline_pages    pages of pipelines and their runs
experiment_pages  pages of experiments
dag               the drawing of a pipeline's steps
forms             the fields of the form that submits a job
showing           a patch and runs of tests as data of a page
rendering         templates and style
"""
