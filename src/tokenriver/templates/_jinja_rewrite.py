"""A template's tree made ready for the sandbox: its own texts are marked as such, and what repeats is charged."""

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer

from tokenriver.errors import InputError
from tokenriver.templates import _jinja_sandbox, _marked

_REFUSED = (
    nodes.Extends,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Block,
    nodes.EvalContextModifier,
    nodes.ScopedEvalContextModifier,
)


class Rewriter(NodeTransformer):
    """Each text of the template becomes an attribute of its environment, a Marked of origin OWN."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._count = 0

    def generic_visit(self, node: nodes.Node, *args: object, **kwargs: object) -> nodes.Node:
        if isinstance(node, _REFUSED):
            raise InputError(
                f"got {type(node).__name__} in line {node.lineno}, expected one that needs no other; write it out"
            )
        return super().generic_visit(node, *args, **kwargs)

    def visit_Const(self, node: nodes.Const) -> nodes.Expr:
        return self._own(node.value, node) if isinstance(node.value, str) else node

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Expr:
        return self._own(node.data, node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), _jinja_sandbox.CONCATENATE)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Expr:
        """What is searched is read through, and so are two texts of equal length."""
        for operand in node.ops:
            if operand.op in ("in", "notin") or not isinstance(node.expr, nodes.Const):
                sought = operand.op not in ("in", "notin") and isinstance(operand.expr, nodes.Const)
                operand.expr = operand.expr if sought else _filter(operand.expr, _jinja_sandbox.COUNT)
        self.generic_visit(node)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:
        self.generic_visit(node)
        return _filter(node, _jinja_sandbox.COUNT) if isinstance(node.arg, nodes.Slice) else node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _tick(node))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _tick(node))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _tick(node))
        return node

    def visit_List(self, node: nodes.List) -> nodes.Expr:
        self.generic_visit(node)
        return _filter(node, _jinja_sandbox.WEIGH) if node.items else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:
        self.generic_visit(node)
        return _filter(node, _jinja_sandbox.WEIGH) if node.items else node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        self.generic_visit(node)
        return _filter(node, _jinja_sandbox.WEIGH) if node.ctx == "load" and node.items else node

    def _own(self, text: str, node: nodes.Node) -> nodes.Expr:
        name = f"text_{self._count}"
        self._count += 1
        setattr(self._environment, name, _marked.own(text))
        return nodes.EnvironmentAttribute(name, lineno=node.lineno, environment=self._environment)


def _tick(node: nodes.Node) -> nodes.Node:
    nothing = nodes.Const(None, lineno=node.lineno)
    return nodes.ExprStmt(_filter(nothing, _jinja_sandbox.TICK), lineno=node.lineno)


def _filter(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
