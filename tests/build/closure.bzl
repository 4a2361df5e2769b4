"""Tests of what a target reaches, through any number of steps."""

def closure_test(name, target, never = None, always = None):
    """Checks all targets that `target` depends on, itself included.

    Args:
      name: the test.
      target: whose dependencies are looked at.
      never: an extended regular expression that matches none of their labels.
      always: one that matches some of them: shows that `never` of another
        test means labels that exist.
    """
    native.genquery(
        name = name + "_labels",
        testonly = True,
        expression = "deps(%s)" % target,
        scope = [target],
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["check_labels.sh"],
        args = [
            "$(rootpath :%s_labels)" % name,
            "'%s'" % (never or ""),
            "'%s'" % (always or ""),
        ],
        data = [":%s_labels" % name],
    )
