"""How jobs start: plans become events, preemption, gang scheduling, CompleteWait."""
