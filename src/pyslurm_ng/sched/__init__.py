"""The scheduler: snapshot in, plan out. Pure, and the same in the controller and the simulator."""
