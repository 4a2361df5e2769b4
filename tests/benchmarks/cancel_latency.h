#pragma once

namespace ferry {

// How long a cancelled generation goes on (cancel_latency_steps): the time from
// the call of CancelJob until the job has ended and its rank is free, in steps
// of that generation. Cancels are spread evenly over a step, so that a rank
// that ends with the step that it is in gives 0.5.
void measure_cancel_latency();

}  // namespace ferry
